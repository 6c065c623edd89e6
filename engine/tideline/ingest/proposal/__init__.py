"""What a LakeTable for the files of a folder would be, with the evidence that the files give.

- a LakeTable from files, `tideline init`: this package, `cli.init`
"""
