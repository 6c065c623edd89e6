"""A release: every file of it from one commit, and its way into a registry.

    source_tree       the commit, and what in it has to name the version
    python_packages   wheel and sdist
    image_archives    images, by digest
    chart             the Helm chart, with the images in it
    manifests         install.yaml, and the example, for those without Helm
    statements        bills of materials, provenance, checksums
    signing           signatures of files, images and the chart, and their check
    notes             what the CHANGELOG says of the version
    publication       images, chart and signatures in a registry

`build` writes files and contacts no registry; `publish` pushes these files and builds nothing.
"""
