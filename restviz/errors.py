"""The base of all errors that are the user's to mend."""


class RestvizError(Exception):
    """Something the user can mend: the message is one clear sentence that says what to do.

    The page and the command line print it as it is; anything else that escapes is a defect of RestViz.
    """
