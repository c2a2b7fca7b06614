"""Black-box adversarial searches on images: noise within a small ball that makes the model answer another class."""
