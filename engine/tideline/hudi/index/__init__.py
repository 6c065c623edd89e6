"""How rows find the file group that holds their key."""
