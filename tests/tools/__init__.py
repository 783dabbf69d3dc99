"""What tests share: a package for each topic, imported as `tools.TOPIC.MODULE`."""
