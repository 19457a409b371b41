"""A webhook: writes its port to the file `port`, and the body of each POST as a line to the file `posts`. Answers the first POST with
503, and does not write it."""
import http.server
import os


class Webhook(http.server.BaseHTTPRequestHandler):
    refused = False

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        good = Webhook.refused and self.headers["Content-Type"] == "application/json"
        Webhook.refused = True
        if good:
            with open("posts", "ab") as posts:
                posts.write(body + b"\n")
        self.send_response(200 if good else 503)
        self.end_headers()


server = http.server.HTTPServer(("127.0.0.1", 0), Webhook)
with open("port.new", "w") as port:
    port.write(str(server.server_port))
os.rename("port.new", "port")
server.serve_forever()
