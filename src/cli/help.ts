/** What `--help` adds to the grammar: examples, environment variables, exit codes. Pure. */
import { EXPECTED } from "../shared/variables.ts";
import { wrap } from "./text.ts";

const NAME_CELLS = 27;

/** Examples and explanations by verb; `all` stands below the list of verbs. */
export const HELP = {
  all: (columns: number): string => `
Examples:
  subagent-queue start --once
  subagent-queue run "Which testing framework does this project use?"
  REDIS_URL=redis://127.0.0.1:6379 subagent-queue worker

Environment variables, all optional, all checked before anything starts:
${variables(columns).join("\n")}

Exit codes:
  0    done
  1    a run did not succeed
  2    the command line or its input cannot be used
  3    environment, Redis or configuration
  130  interrupted`,
  start: `
Examples:
  subagent-queue start             ask, print the replies, and stay up as a worker
  subagent-queue start --once      ask, print the replies, and end
  SUBAGENT_ROOTS=/srv/repo:ro subagent-queue start --once`,
  run: `
Examples:
  subagent-queue run "How many TODO comments are there?"
  subagent-queue run "Review src/index.ts" "Review src/server.ts"
  subagent-queue run - < question.txt`,
  worker: `
Examples:
  REDIS_URL=redis://127.0.0.1:6379 subagent-queue worker
  REDIS_URL=redis://127.0.0.1:6379 SUBAGENT_ROOTS=/srv/repo:ro SUBAGENT_CONCURRENCY=200 subagent-queue worker`,
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

function variables(columns: number): string[] {
  return Object.entries(EXPECTED).flatMap(([name, form]) => {
    const [first = "", ...rest] = wrap(form, columns - NAME_CELLS - 3);
    const below = " ".repeat(NAME_CELLS + 2);
    return [`  ${name.padEnd(NAME_CELLS)}${first}`, ...rest.map((line) => below + line)];
  });
}
