# One task, and up to a minute for its reply. API: http://127.0.0.1:8787; KEY: made by `subagent-queue keys create`.
curl -sS --fail-with-body "$API/v1/parents/shell/tasks?wait=60" -H "Authorization: Bearer $KEY" \
  -H 'Content-Type: application/json' -H 'Idempotency-Key: "shell-1"' \
  -d '{"prompt": "Which testing framework does this project use?"}'
