"""What scripts that test signals share: text to put before theirs, which they run in a process of its own."""

WAIT_FOR_OUR_HANDLER = """
import ctypes, os, signal, threading, time
def _handler():
    # The address of what SIGINT calls now: the first field of the structure.
    action = (ctypes.c_size_t * 64)()
    ctypes.CDLL(None).sigaction(int(signal.SIGINT), None, ctypes.byref(action))
    return action[0]
def _libraries():
    with open("/proc/self/maps") as maps:
        ours = [line.split()[0].split("-") for line in maps if "_taiga" in line]
    return [range(int(first, 16), int(end, 16)) for first, end in ours]
def wait_for_our_handler():
    # Until a call of ours is under way: a signal that comes before is for Polars alone to notice.
    plugin = _libraries()
    while not any(_handler() in addresses for addresses in plugin):
        time.sleep(0.01)
def _interrupt():
    wait_for_our_handler()
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
def interrupt_once_a_call_is_under_way():
    threading.Thread(target=_interrupt, daemon=True).start()
"""
