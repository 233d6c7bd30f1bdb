/** Runs the Lua scripts of the table. They are idempotent: ioredis sends one again when its answer was lost. */
import { readFileSync } from "node:fs";
import { SubagentError } from "../errors.ts";
import type { RedisClient } from "./connection.ts";
import {
  type Answer,
  type ArgsOf,
  type KeysOf,
  SCRIPTS,
  type ScriptName,
  type Shape,
} from "./script-table.ts";

/** Runs scripts by name over one connection. */
export interface Scripts {
  /**
   * Runs script `name` with its keys and arguments, `extra` arguments behind them. Rejects with the connection's own
   * error when Redis cannot be asked, with `protocol_violation` when the answer is none of the script's words.
   */
  run<N extends ScriptName>(
    name: N,
    keys: KeysOf<(typeof SCRIPTS)[N]>,
    args: ArgsOf<(typeof SCRIPTS)[N]>,
    extra?: readonly string[],
  ): Promise<Answer<N>>;
}

const LUA_DIR = new URL("./lua/", import.meta.url);

/** The source of a script as Redis gets it: the prelude and the script's own file. */
export function luaSource(name: ScriptName): string {
  const file = (base: string) => readFileSync(new URL(`${base}.lua`, LUA_DIR), "utf8");
  return `${file("prelude")}\n${file(name)}`;
}

const loaded = new WeakMap<RedisClient, Scripts>();

/** The scripts over `redis`, made known to that connection once. */
export function loadScripts(redis: RedisClient): Scripts {
  const scripts = loaded.get(redis) ?? defineScripts(redis);
  loaded.set(redis, scripts);
  return scripts;
}

function defineScripts(redis: RedisClient): Scripts {
  for (const [name, shape] of Object.entries(SCRIPTS)) {
    redis.defineCommand(commandOf(name), {
      lua: luaSource(name as ScriptName),
      numberOfKeys: shape.keys.length,
    });
  }
  return {
    async run(name, keys, args, extra = []) {
      const shape: Shape = SCRIPTS[name];
      const command = Reflect.get(redis, commandOf(name)) as (
        ...args: (string | number)[]
      ) => Promise<unknown>;
      const keysByName: Record<string, string> = keys;
      const argsByName: Record<string, string | number> = args;
      const answer = await command.call(
        redis,
        ...shape.keys.map((key) => keysByName[key] ?? ""),
        ...shape.args.map((arg) => argsByName[arg] ?? ""),
        ...extra,
      );
      return decode(name, shape, answer) as Answer<typeof name>;
    },
  };
}

function commandOf(name: string): string {
  return `saq_${name}`;
}

function decode(name: string, shape: Shape, answer: unknown): Record<string, unknown> {
  const [word, ...values] = Array.isArray(answer) ? answer.map(String) : [];
  const names = word === undefined ? undefined : shape.answers[word];
  if (word === undefined || !names) {
    throw new SubagentError(
      "protocol_violation",
      `Script ${name} answered ${JSON.stringify(answer)}: run one version of this package.`,
    );
  }
  const decoded: Record<string, unknown> = { status: word, rest: values.slice(names.length) };
  for (const [i, field] of names.entries()) decoded[field] = values[i] ?? "";
  return decoded;
}
