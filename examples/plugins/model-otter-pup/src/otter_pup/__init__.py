"""The model otter-pup. Its files are in the folder `weights`, its registration in `plugin`."""
