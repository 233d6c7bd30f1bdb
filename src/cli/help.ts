/** What `--help` adds to the grammar: examples, environment variables, exit codes. Pure. */
import { EXPECTED } from "../shared/variables.ts";
import { wrap } from "./text.ts";

const NAME_CELLS = 27;

/** What stands below the list of verbs, on a terminal of `columns` cells. */
export function helpForAll(columns: number): string {
  return `
Examples:
  subagent-queue start --once
  subagent-queue run "Which testing framework does this project use?"
  REDIS_URL=redis://127.0.0.1:6379 subagent-queue worker

spawn, send, answer, finish, destroy, list, replies, watch and usage act on the
agents of one parent on the Redis of REDIS_URL:
  export REDIS_URL=redis://127.0.0.1:6379
  subagent-queue spawn "Data Collector" --prompt "List the Lua scripts"
  subagent-queue replies --follow --ack

Environment variables, all optional, all checked before anything starts:
${variables(columns).join("\n")}

Exit codes:
  0    done
  1    a run did not succeed
  2    the command line or its input cannot be used
  3    environment, Redis or configuration
  130  interrupted`;
}

/** Examples by verb. */
export const HELP = {
  start: `
Examples:
  subagent-queue start             ask, print the replies, and stay up as a worker
  subagent-queue start --once      ask, print the replies, and end
  subagent-queue start --once --json | jq '.replies[].summary'
  SUBAGENT_ROOTS=/srv/repo:ro subagent-queue start --once`,
  run: `
Examples:
  subagent-queue run "How many TODO comments are there?"
  subagent-queue run "Review src/index.ts" "Review src/server.ts"
  subagent-queue run - < question.txt
  subagent-queue run --json "List the Lua scripts" | jq -r '.replies[0].summary'

With REDIS_URL, live workers on that Redis get the work; where there are none,
one is started here for as long as it takes.`,
  worker: `
Examples:
  REDIS_URL=redis://127.0.0.1:6379 subagent-queue worker
  REDIS_URL=redis://127.0.0.1:6379 SUBAGENT_ROOTS=/srv/repo:ro SUBAGENT_CONCURRENCY=200 subagent-queue worker
  NODE_ENV=production REDIS_URL=redis://redis:6379 subagent-queue worker --health-port 8790 --health-host 0.0.0.0
  curl -s http://127.0.0.1:8790/readyz    200 when it takes work, else 503 and why`,
  spawn: `
Examples:
  subagent-queue spawn "Data Collector" --prompt "Which Lua scripts are there?"
  id=$(subagent-queue spawn reviewer --tools read_file,grep --keep-alive)
  subagent-queue spawn summariser --prompt - < notes.txt`,
  send: `
Examples:
  subagent-queue send data_collector "And what is each of them for?"
  subagent-queue send data_collector - < question.txt`,
  answer: `
Examples:
  subagent-queue answer data_collector "Take the second one"
  subagent-queue answer data_collector "EUR" --question 3/toolu_01A

Open questions stand in replies and in list --json. The first answer counts.`,
  list: `
Examples:
  subagent-queue list
  subagent-queue list --parent planner-7 --json | jq -r '.sub_agents[].agent_id'`,
  finish: `
Examples:
  subagent-queue finish data_collector

Its reply has the status partial and the stop reason finished_by_parent.`,
  destroy: `
Examples:
  subagent-queue destroy data_collector`,
  replies: `
Examples:
  subagent-queue replies                        look, and leave everything where it is
  subagent-queue replies --ack                  print and take out
  subagent-queue replies --follow --ack --json  one JSON line for each entry, until Ctrl-C`,
  watch: `
Examples:
  subagent-queue watch
  subagent-queue watch --parent planner-7
  subagent-queue watch --json | jq -c 'select(.type == "agent")'

With --json: one line for each progress event, and {"type":"agent","agent":{…}}
whenever an agent's status changes.`,
  usage: `
Examples:
  subagent-queue usage
  subagent-queue usage --since 7d
  subagent-queue usage --since 2026-11-01 --json`,
  pause: `
Examples:
  subagent-queue pause
  subagent-queue pause --reason "the budget of this month is used up"

A model call in flight may still end, and what it brings is kept: it is paid
for. Runs are queued and wait, at no cost, but a message that waits for a day
ends its agent also while paused. Workers may be stopped and started meanwhile.`,
  resume: `
Examples:
  subagent-queue resume
  subagent-queue resume --json | jq -r '.was.at'`,
  doctor: `
Examples:
  subagent-queue doctor
  subagent-queue doctor --fix
  subagent-queue doctor --measure
  subagent-queue doctor --json | jq -r '.findings[] | [.severity, .check, .count] | @tsv'

It looks at everything under SUBAGENT_PREFIX on the Redis of REDIS_URL while work
goes on there, and at the workspaces of this machine (SUBAGENT_WORKSPACES).
--fix wakes what is stuck, ends what is overdue, frees leaked places, removes
leftover keys, and deletes workspaces of ended agents that nothing has touched
for 30 days. It acks no reply and writes no record. It may run at any time.
--measure spends 47 calls of at most 16 output tokens.

Exit codes:
  0    nothing is wrong, or warnings only
  1    errors
  2    the command line cannot be used
  3    environment or Redis`,
  board: `
Examples:
  REDIS_URL=redis://127.0.0.1:6379 subagent-queue board
  REDIS_URL=redis://redis:6379 subagent-queue board --host 0.0.0.0 --host-name board.internal`,
  offlineModel: `
Examples:
  subagent-queue offline-model
  ANTHROPIC_BASE_URL=http://127.0.0.1:8787 subagent-queue start --once
  subagent-queue offline-model --scenario slow.json --latency-ms 200 --ledger served.jsonl`,
};

/** A verb with examples. */
export type Verb = keyof typeof HELP;

function variables(columns: number): string[] {
  return Object.entries(EXPECTED).flatMap(([name, form]) => {
    const [first = "", ...rest] = wrap(form, columns - NAME_CELLS - 3);
    const below = " ".repeat(NAME_CELLS + 2);
    return [`  ${name.padEnd(NAME_CELLS)}${first}`, ...rest.map((line) => below + line)];
  });
}
