"""Ray: the engine beyond one process. Nothing else imports it, and it is imported when it is used."""
