# One task over HTTP with Python's standard library. API: http://127.0.0.1:8787; KEY: `subagent-queue keys create`.
import json, os, urllib.request
url = os.environ["API"] + "/v1/parents/python/tasks?wait=60"
task = {"prompt": "Which testing framework does this project use?", "limits": {"max_turns": 5}}
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["KEY"]}
with urllib.request.urlopen(urllib.request.Request(url, json.dumps(task).encode(), headers)) as answer:
    print(json.load(answer)["summary"])
