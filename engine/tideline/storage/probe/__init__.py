"""Does a store keep the promises of `tideline.storage.object_store`? Asked, not believed.

- does a store work as required: `run`
"""
