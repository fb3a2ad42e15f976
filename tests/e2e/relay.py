"""Forwards bytes between a Unix socket and a TCP port:   relay.py PATH ADDRESS PORT"""
import os
import socket
import sys
import threading

CONNECT_SECONDS = 2  # a network that drops everything


def carry(source, destination):
    try:
        while data := source.recv(65536):
            destination.sendall(data)
    except OSError:
        pass
    for each in (source, destination):
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(near, target):
    try:
        far = socket.create_connection(target, timeout=CONNECT_SECONDS)
    except OSError:
        return near.close()
    far.settimeout(None)
    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    there = threading.Thread(target=carry, args=(near, far), daemon=True)
    there.start()
    carry(far, near)
    there.join()
    near.close()
    far.close()


def main(path, address, port):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(16)
    os.rename(path + ".new", path)  # a client that sees it may connect
    while True:
        near, _ = listener.accept()
        threading.Thread(target=serve, args=(near, (address, int(port))), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
