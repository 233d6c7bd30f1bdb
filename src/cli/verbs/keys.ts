/** `keys`: an operator creates, lists, rotates and revokes the API keys of programs. */
import { Option } from "commander";
import type { z } from "zod";
import { SubagentError } from "../../shared/errors.ts";
import { TenantId } from "../../shared/protocol/ids.ts";
import {
  type ApiKey,
  ApiKeyName,
  type ApiKeys,
  createApiKeys,
  type MadeApiKey,
  type OnKeyWrite,
  Scope,
} from "../../shared/redis/api-keys.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { askInstallation, requireRedisUrl } from "../local/redis.ts";
import { renderTable } from "../terminal/table.ts";
import { toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue keys create "billing service"                  shows the key, once
  subagent-queue keys create dashboard --scope read --tenant acme
  subagent-queue keys list
  subagent-queue keys rotate 1f0c…                              a second key of the same name
  subagent-queue keys revoke 1f0c…                              refused from then on, for good

Until the first key is made, the API answers on loopback alone, without a key;
from then on every request needs one. A tenant has one key of a name: rotate makes a
second one. Revoke the first once "last used" of keys list stands still: it names the
minute of a key's last request or open stream, for 90 days.

Scopes: read looks at agents and replies; spawn also changes them; admin also
registers profiles and sees the whole installation (board, metrics), all tenants
of it: keep it for those who run the installation. The tenant of a request is its
key's. Once a key is revoked, its streams end within 15 s, and a request that has
waited 15 s or longer is refused.`;

const CREATE_HELP = `
Examples:
  subagent-queue keys create "billing service"
  subagent-queue keys create dashboard --scope read --tenant acme

The key stands alone on standard output. It is not shown again.
read looks at agents and replies; spawn also changes them; admin also registers
profiles and sees the whole installation, all tenants of it.`;

const ROTATE_HELP = `
Examples:
  subagent-queue keys rotate 1f0c…       the key id is that of keys list`;

const REVOKE_HELP = `
Examples:
  subagent-queue keys revoke 1f0c…       the key id is that of keys list`;

const LIST_HELP = `
Examples:
  subagent-queue keys list
  subagent-queue keys list --json | jq -r '.keys[] | select(.revoked_at == null) | .key_id'`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  const add = (words: string, says: string, work: Work) =>
    command
      .command(words)
      .description(says)
      .option("--json", "the result as JSON", false)
      .action(async (subject: string, flags: KeysFlags) =>
        done(await change(open("warn"), subject, flags, work)),
      );
  add("create <name>", "make a key and show it, once", create)
    .option("--tenant <tenant>", "whose agents it is for, default SUBAGENT_TENANT")
    .addOption(new Option("--scope <scope>", "rights of the key").choices(Scope.options).default("spawn"))
    .addHelpText("after", CREATE_HELP);
  add("rotate <key_id>", "make a second key of the same name", async (keys, id, _, onWrite) => ({
    made: await keys.rotate(id, onWrite),
  })).addHelpText("after", ROTATE_HELP);
  add("revoke <key_id>", "revoke a key, at once and for good", async (keys, id) => ({
    key: await keys.revoke(id),
  })).addHelpText("after", REVOKE_HELP);
  command
    .command("list")
    .description("show all keys, never their secrets")
    .option("--json", "the result as JSON", false)
    .addHelpText("after", LIST_HELP)
    .action(async (flags: KeysFlags) => done(await list(open("warn"), flags)));
  command.addHelpText("after", HELP);
};

interface KeysFlags {
  json: boolean;
  tenant?: string;
  scope?: string;
}

type Result = { made: MadeApiKey } | { key: ApiKey };
type Work = (keys: ApiKeys, subject: string, flags: KeysFlags, onWrite: OnKeyWrite) => Promise<Result>;

/** Creates a key. Throws `invalid_input` for an invalid name, tenant or scope, `conflict` for a name in use. */
async function create(
  keys: ApiKeys,
  text: string,
  { tenant: owner, scope: may }: KeysFlags,
  onWrite: OnKeyWrite,
): Promise<Result> {
  const name = read(
    ApiKeyName,
    text,
    "the name",
    "1 to 64 of A-Z a-z 0-9 . _ - and spaces, a letter or digit first",
  );
  const tenant = read(TenantId, owner, "--tenant", "1 to 64 of A-Z a-z 0-9 . _ -, a letter or digit first");
  const scope = read(Scope, may, "--scope", `one of ${Scope.options.join(", ")}`);
  return { made: await keys.create({ name, tenant, scope }, onWrite) };
}

function read<T>(schema: z.ZodType<T>, given: string | undefined, what: string, form: string): T {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  throw new SubagentError("invalid_input", `${what} cannot be used: write ${form}.`);
}

async function change(
  context: CommandContext,
  subject: string,
  flags: KeysFlags,
  work: Work,
): Promise<number> {
  const { output, config } = context;
  const result = await withoutLostKey(context, (onWrite) =>
    onKeys(context, (keys) => work(keys, subject, { tenant: config.tenant, ...flags }, onWrite)),
  );
  if (flags.json) output.result(toJsonLine("made" in result ? result.made : result.key));
  else if ("made" in result) {
    output.result(result.made.token);
    const { key_id, tenant, scope } = result.made;
    output.note(`Key ${key_id} for tenant "${tenant}" with scope ${scope}: it is not shown again.`);
  } else output.result(`revoked ${result.key.key_id}`);
  return EXIT.done;
}

/**
 * Calls `work`. A key that it wrote when Redis stopped answering is removed over a new connection, because its secret was never shown.
 * If that fails too, rejects with `outcome_unknown`, which names the key.
 */
async function withoutLostKey<T>(
  context: CommandContext,
  work: (onWrite: OnKeyWrite) => Promise<T>,
): Promise<T> {
  const written: { keyId?: string | undefined } = {};
  try {
    return await work((keyId) => {
      written.keyId = keyId;
    });
  } catch (error) {
    const lost = written.keyId;
    if (lost === undefined || !(error instanceof SubagentError) || error.code !== "redis_unavailable")
      throw error;
    await onKeys(context, (keys) => keys.discard(lost)).catch(() => {
      const sentence = `Redis did not answer, so it is unknown whether the key ${lost} was made, and its secret is lost: when Redis answers, revoke it if subagent-queue keys list shows it.`;
      throw new SubagentError("outcome_unknown", sentence, { key_id: lost }, error);
    });
    throw error;
  }
}

async function list(context: CommandContext, { json }: KeysFlags): Promise<number> {
  const { output } = context;
  const found = await onKeys(context, (keys) => keys.list());
  if (json) output.result(toJsonLine({ keys: found }));
  else if (found.length === 0)
    output.note("No API key has been created: the API answers on loopback without one.");
  else
    output.result(
      renderTable(
        found,
        [
          { title: "key id", leaves: 0, text: ({ key_id }) => key_id },
          { title: "name", leaves: 0, least: 8, text: ({ name }) => name },
          { title: "tenant", leaves: 1, text: ({ tenant }) => tenant },
          { title: "scope", leaves: 2, text: ({ scope }) => scope },
          { title: "created", leaves: 4, text: ({ created_at }) => created_at },
          // Cut, it still has its minute.
          { title: "last used", leaves: 3, least: 17, text: ({ last_used_at = "-" }) => last_used_at },
          // Without it a revoked key looks like one that is valid.
          { title: "revoked", leaves: 0, least: 11, text: ({ revoked_at = "-" }) => revoked_at },
        ],
        { columns: output.resultColumns, style: output.resultStyle },
      ),
    );
  return EXIT.done;
}

function onKeys<T>({ config, clock }: CommandContext, work: (keys: ApiKeys) => Promise<T>): Promise<T> {
  const redisUrl = requireRedisUrl(config, "API keys are stored in the API's Redis");
  return askInstallation(redisUrl, config.prefix, clock, ({ redis, keys }) =>
    work(createApiKeys(redis, keys)),
  );
}
