"""Two hosts with a middlebox between them: this process forwards each IP packet between them or drops it silently, as
firewalls, links with a small MTU and NAT without state do."""

import ctypes
import fcntl
import os
import select
import struct
import threading
import time

import hosts
from jobs import Skipped, two_hosts

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
RENDEZVOUS = 29500


class Packet:
    """An IPv4 packet; `ports` are (0, 0) unless it is TCP."""

    def __init__(self, data):
        self.data = data
        head = (data[0] & 15) * 4
        self.is_tcp = data[0] >> 4 == 4 and data[9] == 6
        self.ports = struct.unpack_from("!HH", data, head) if self.is_tcp else (0, 0)
        self.flow = frozenset([(data[12:16], self.ports[0]), (data[16:20], self.ports[1])])
        self.is_syn = self.is_tcp and bool(data[head + 13] & 2)
        self.is_rendezvous = RENDEZVOUS in self.ports


class Middlebox:
    """`passes(packet)` decides; it may be replaced at any time. `seen` counts TCP data packets without the rendezvous."""

    def __init__(self, mtus=(1500, 1500)):
        self.net = two_hosts([])
        self.passes = lambda packet: True
        self.seen = 0
        self.taps = [self._tap(side, mtus[side]) for side in (0, 1)]
        self._ends = os.pipe()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @staticmethod
    def address(side):
        return f"10.91.0.{side + 1}"

    def prefix(self, side):
        return ["ip", "netns", "exec", self.net.names[side]]

    def _tap(self, side, mtu):
        made = {}

        def inside():  # setns changes the namespace of the calling thread only
            with open(f"/run/netns/{self.net.names[side]}") as where:
                if ctypes.CDLL(None, use_errno=True).setns(where.fileno(), CLONE_NEWNET) != 0:
                    made["why"] = os.strerror(ctypes.get_errno())
                    return
            try:
                tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", b"t0", IFF_TUN | IFF_NO_PI))
                made["tap"] = tap
            except OSError as refused:
                made["why"] = str(refused)

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        if "why" in made:
            raise Skipped(f"no TUN device here: {made['why']}")
        name = self.net.names[side]
        hosts.ip("-n", name, "link", "set", "t0", "mtu", mtu, "up")
        hosts.ip("-n", name, "address", "add", f"{self.address(side)}/24", "dev", "t0")
        return made["tap"]

    def _run(self):
        while True:
            ready, _, _ = select.select([*self.taps, self._ends[0]], [], [])
            if self._ends[0] in ready:
                return
            for tap in ready:
                other = self.taps[1 - self.taps.index(tap)]
                for _ in range(64):
                    try:
                        packet = Packet(os.read(tap, 65536))
                    except OSError:
                        break
                    if packet.is_tcp and not packet.is_rendezvous and not packet.is_syn:
                        self.seen += 1
                    if self.passes(packet):
                        try:
                            os.write(other, packet.data)
                        except OSError:  # its queue is full: the packet is lost, as on a slow link
                            pass

    def wait_for_data(self, packets, limit_s=20):
        end = time.monotonic() + limit_s
        while self.seen < packets and time.monotonic() < end:
            time.sleep(0.01)
        return self.seen >= packets

    def close(self):
        os.write(self._ends[1], b"x")
        self._thread.join()
        for handle in [*self.taps, *self._ends]:
            os.close(handle)
        self.net.close()
