"""What every test may count on."""

import signal
import threading

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # A shell starts its background jobs with Ctrl-C ignored, and programs that tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
