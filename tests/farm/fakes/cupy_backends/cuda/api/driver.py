"""Plays CUDA's driver: its error alone."""


class CUDADriverError(RuntimeError):
    def __init__(self, status: int) -> None:
        super().__init__(f"CUresult {status}")
        self.status = status
