/** `webhook`: sets, shows or removes the URL to which a parent's replies are pushed. */
import { requireReachable } from "../../service/webhooks/address.ts";
import { messageOf } from "../../shared/errors.ts";
import type { WebhookView } from "../../shared/redis/webhooks.ts";
import { type ActingFlags, actAsParent, actingOptions, type ParentSession } from "../as-parent.ts";
import { type DefineCommand, EXIT } from "../command.ts";
import { plainLine, toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue webhook set https://example.com/hook     prints the secret that signs, once
  subagent-queue webhook show --parent planner-7
  subagent-queue webhook remove

Replies, questions and messages are pushed by the processes of "api", signed
as Standard Webhooks says; a 2xx answer acks them.`;

const SET_HELP = `
Examples:
  subagent-queue webhook set https://example.com/hook --parent planner-7

The secret that signs stands alone on standard output. It is not shown again.`;

const SHOW_HELP = `
Examples:
  subagent-queue webhook show --parent planner-7
  subagent-queue webhook show --json | jq -r .status`;

const REMOVE_HELP = `
Examples:
  subagent-queue webhook remove --parent planner-7`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  const act = (flags: ActingFlags, work: (acting: ParentSession) => Promise<void>) =>
    actAsParent(open("warn"), "webhook", flags, async (acting) => {
      await work(acting);
      return EXIT.done;
    }).then(done);
  actingOptions(command.command("set <url>").description("push to this address, with a new secret"))
    .addHelpText("after", SET_HELP)
    .action((url: string, flags: ActingFlags) =>
      act(flags, async ({ parent, context: { output } }) => {
        const set = await parent.webhook.set({ url });
        output.result(flags.json ? toJsonLine(set) : set.secret);
        if (flags.json) return;
        output.note("Receivers check signatures with this secret: it is not shown again.");
        const problem = unreachable(url);
        if (problem !== undefined) output.note(problem);
      }),
    );
  actingOptions(command.command("show").description("show the address, and how the last pushes went"))
    .addHelpText("after", SHOW_HELP)
    .action((flags: ActingFlags) =>
      act(flags, async ({ parent, context: { output }, redisNowMs }) => {
        const view = await parent.webhook.get();
        output.result(flags.json ? toJsonLine(view) : inWords(view, redisNowMs()));
      }),
    );
  actingOptions(command.command("remove").description("stop pushing"))
    .addHelpText("after", REMOVE_HELP)
    .action((flags: ActingFlags) =>
      act(flags, async ({ parent, context: { output } }) => {
        await parent.webhook.remove();
        output.result(flags.json ? toJsonLine({ removed: true }) : "removed");
      }),
    );
  command.addHelpText("after", HELP);
};

/** Returns the reason why an API would not push to `url` unless its operator allows all addresses. */
function unreachable(url: string): string | undefined {
  try {
    requireReachable(url, "public");
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** An attempt that is later than this was missed by every API process, ms. */
const MISSED_MS = 60_000;

function inWords({ url, status, last_problem, next_try_at }: WebhookView, nowMs: number): string[] {
  const problem = last_problem === undefined ? "" : `: ${plainLine(last_problem)}`;
  const line = `${status} ${plainLine(url)}${problem}`;
  if (next_try_at === undefined) return [line];
  const isMissed = Date.parse(next_try_at) < nowMs - MISSED_MS;
  return [
    line,
    isMissed
      ? `the next attempt was due at ${next_try_at}: start an API process (subagent-queue api)`
      : `the next attempt is at ${next_try_at}`,
  ];
}
