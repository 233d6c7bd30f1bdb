/**
 * Guarantee: the inbox is data. However a producer spells a valid message (blanks, order of keys, escapes, more fields), the
 * agent reads it once and goes on: no run spins. `PAYLOADS` (default 200): so many spellings; drawn from `PAYLOAD_SEED`.
 */
import { expect, test } from "vitest";
import { wakeOf } from "../../../src/shared/protocol/keys.ts";
import { seeded } from "../../helpers/seeded.ts";
import { type Agent, openStage } from "../../stage/stage.ts";

const PAYLOADS = Number(process.env.PAYLOADS ?? 200);
const SEED = Number(process.env.PAYLOAD_SEED ?? 1);
const AGENTS = 10;
const MESSAGES_OF_AN_AGENT = 20;
/** A run commits its answer; every message is read by a run of its own at most. */
const MOST_WAKES_A_RUN = 3;

const random = seeded(SEED);
const pick = <T>(values: readonly T[]): T => values[Math.floor(random.next() * values.length)] as T;
const blank = () => pick(["", "", " ", "\n", "\t", "\r\n", "   "]);
const ONE = ["1", "1.0", "1e0", "1E+0", "0.1e1", "10e-1", "100E-2"];
const VALUES = ["null", "true", "-0", "1e400", "[]", '{"a":[{}]}', '"x"', "12345678901234567890"];
const TEXTS = [
  "go",
  'a "quoted" word',
  "tab\tand\nline",
  "größe",
  "日本 🚀",
  "\\u0041",
  "a/b",
  "\u0000",
  "a\u2028b",
];

/** One of the spellings that JSON allows for a text. */
function spelled(text: string): string {
  const one = (unit: string) => {
    const plain = JSON.stringify(unit).slice(1, -1);
    const hex = unit.charCodeAt(0).toString(16).padStart(4, "0");
    return pick([
      plain,
      plain,
      plain,
      `\\u${hex}`,
      `\\u${hex.toUpperCase()}`,
      ...(unit === "/" ? ["\\/"] : []),
    ]);
  };
  // A character of two units is written whole or escaped whole.
  const characters = [...text].map((character) =>
    character.length === 2 && random.next() < 0.5 ? character : character.split("").map(one).join(""),
  );
  return `"${characters.join("")}"`;
}

/** A message as some other language would write it. */
function respelled(messageId: string, text: string): string {
  const fields = [
    [spelled("v"), pick(ONE)],
    [spelled("message_id"), spelled(messageId)],
    [spelled("text"), spelled(text)],
    ...(random.next() < 0.3 ? [[spelled("extra"), pick(VALUES)]] : []),
    ...(random.next() < 0.1 ? [['"attached"', "false"]] : []),
  ];
  fields.sort(() => random.next() - 0.5);
  const written = fields.map(([name, value]) => `${blank()}${name}${blank()}:${blank()}${value}${blank()}`);
  return `${blank()}{${written.join(",")}}${blank()}`;
}

test(`${PAYLOADS} spellings of valid messages: each is read once, and no run spins`, {
  timeout: 300_000 + PAYLOADS * 100,
}, async () => {
  const installation = await openStage({
    scenario: { turns: [{ content: [{ type: "text", text: "read" }] }], repeat: true },
  });
  const { store, deadlines, wakes, redis, keys } = installation;
  await installation.startWorker({ concurrency: AGENTS });
  const sendAll = async (agent: Agent, count: number) => {
    for (let i = 0; i < count; i++) {
      const messageId = pick([`m-${i}`, `m.${i}:x_`, `${i}`]);
      const payload = respelled(messageId, pick(TEXTS));
      expect(JSON.parse(payload)).toMatchObject({ v: 1, message_id: messageId });
      await deadlines.hint(agent, store.timing.checkMs);
      const answer = await store.send(agent, { message_id: messageId, payload, digest: "" });
      expect(answer.status, payload).toBe("queued");
      if (answer.status === "queued") await wakes.add(wakeOf(agent, agent.agentId, answer.wake));
      await installation.recordWhere(agent, ({ status, run }) => status === "idle" && run > i);
    }
  };
  const rounds = Math.ceil(PAYLOADS / AGENTS / MESSAGES_OF_AN_AGENT);
  let most = 0;
  for (let round = 0; round < rounds; round++) {
    const agents = await Promise.all(
      Array.from({ length: AGENTS }, () => installation.spawn({ keep_alive: true })),
    );
    await Promise.all(agents.map((agent) => sendAll(agent, MESSAGES_OF_AN_AGENT)));
    for (const agent of agents) {
      const { run, wake } = await installation.record(agent);
      expect(run).toBe(MESSAGES_OF_AN_AGENT);
      expect(await redis.llen(keys.agent(agent).inbox)).toBe(0);
      most = Math.max(most, wake / run);
    }
  }
  const sent = rounds * AGENTS * MESSAGES_OF_AN_AGENT;
  process.stdout.write(`${sent} payloads, at most ${most.toFixed(2)} wakes a run, seed ${SEED}\n`);
  expect(installation.offline.ledger).toHaveLength(sent);
  expect(most).toBeLessThanOrEqual(MOST_WAKES_A_RUN);
});
