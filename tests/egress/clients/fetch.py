# SPDX-License-Identifier: Apache-2.0
"""fetch.py urllib|requests|httpx URL: the body on standard output; status 1 and the body for anything but 2xx."""
import sys
import urllib.error
import urllib.request


def by_urllib(url):
    try:
        r = urllib.request.urlopen(url)
    except urllib.error.HTTPError as e:
        r = e
    return r.status, r.read().decode()


def by_requests(url):
    import requests
    r = requests.get(url)
    return r.status_code, r.text


def by_httpx(url):
    import httpx
    r = httpx.get(url)
    return r.status_code, r.text


status, text = globals()[f"by_{sys.argv[1]}"](sys.argv[2])
print(text)
sys.exit(0 if status // 100 == 2 else 1)
