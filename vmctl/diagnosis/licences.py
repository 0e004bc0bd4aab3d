"""Texts in which a guest gets no licence (dossier 8 and 9): data. Pure."""

from __future__ import annotations

from vmctl.diagnosis.failures import Failure

LICENCE_FAILURES = (
    Failure(
        33,
        r"Unable to fetch the client configuration token file",
        "The guest has no licence token, or one in another folder or with other rights.",
        "Start the machine with a licence token: it goes into the folder ClientConfigToken of the guest.",
    ),
    Failure(
        33,
        r"Failed to open file /etc/nvidia/gridd\.conf",
        "The guest's licence daemon has no settings.",
        "Give the image an /etc/nvidia/gridd.conf with one line FeatureType=.",
    ),
    Failure(
        34,
        r"No pool features found for ?: ?(?P<edition>[^)\n]+)",
        "The licence server has no {edition} left, or none at all.",
        "Look at the pool of the licence server; machines that were killed keep their licence for up to a day.",
    ),
    Failure(
        35,
        r"allowed time to process response has expired",
        "The guest's clock is wrong.",
        "Look at time synchronisation in the guest, and at the host's clock.",
    ),
    Failure(
        36,
        r"Invalid feature requested for the underlying GSP firmware configuration",
        "A workstation licence on a whole GPU does not work with its GSP firmware on this branch.",
        "Set the module option NVreg_EnableGpuFirmware=0 in the guest.",
    ),
    Failure(
        None,
        r"Valid GRID license not found",
        "The guest has no licence: its vGPU becomes slower after some 20 minutes.",
        "Look at the token and at the log of nvidia-gridd in the guest.",
    ),
    Failure(
        None,
        r"Configuration parameter \( ServerAddress\s+\) not set",
        "The guest's driver is of before vGPU 13 and asks for the old licence server.",
        "Update the driver in the image.",
    ),
)
