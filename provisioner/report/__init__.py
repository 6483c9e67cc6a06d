"""The answers, as people and programs read them: terminal text, JSON and Markdown from the same values."""
