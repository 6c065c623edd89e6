"""Reading tenants' tables: in this process, or in processes of their own without the API token."""
