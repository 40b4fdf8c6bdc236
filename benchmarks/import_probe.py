"""Import one module in this fresh interpreter; print seconds and MiB as JSON."""

import sys
import time

started = time.perf_counter()
__import__(sys.argv[1])
seconds = time.perf_counter() - started

# Read before anything else is imported: what follows must not count.
if sys.platform == "linux":
    with open("/proc/self/status", encoding="ascii") as status:
        mebibytes = (
            next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024
        )
else:
    import resource

    unit = 1024**2 if sys.platform == "darwin" else 1024
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

print(f'{{"seconds": {seconds}, "mebibytes": {mebibytes}}}')
