"""Text to speech: voices that say the texts of a suite, so that a recogniser can be asked the same by others."""
