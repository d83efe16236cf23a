# Scrapes all ports each second, as often as Prometheus does at most, and counts the pages. A client need not be there.
import os, sys, time, urllib.request

pages = 0
while True:
    for port in sys.argv[2:]:
        try:
            with urllib.request.urlopen(f'http://{sys.argv[1]}:{port}/metrics', timeout=5) as page:
                pages += bool(page.read())
        except OSError:
            pass
    with open('pages.new', 'w') as file:
        print(pages, file=file)
    os.replace('pages.new', 'pages')
    time.sleep(1)
