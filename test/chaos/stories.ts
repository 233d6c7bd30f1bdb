/**
 * Generates the tasks ("stories") of a chaos run's sub-agents. The seed decides the number of turns, the parallel tool calls and
 * their durations, and so the effects of an undisturbed run. Pure.
 */
import type { Scenario } from "../../src/offline/server.ts";
import { type Seeded, seeded } from "../helpers/seeded.ts";

/** The prompts of one agent's runs, and their expected effects. */
export interface Story {
  number: number;
  /** One prompt per run. With more than one, the agent is kept alive between runs and destroyed at the end. */
  prompts: readonly string[];
  /** Number of turns of each run. */
  turns: readonly number[];
  /** Lines that the tool `note` (not idempotent) must write, all different. */
  notes: readonly string[];
  /** Lines that the tool `look` (idempotent) must write, all different. */
  looks: readonly string[];
  script: Script;
}

/** Ranges from which the seed draws; times in ms. */
export interface Tempo {
  latencyMs: readonly [from: number, to: number];
  toolMs: readonly [from: number, to: number];
  turns: readonly [from: number, to: number];
}

type Script = Exclude<Scenario, readonly unknown[]>;
type Turn = Script["turns"][number];

/** One of this many agents is kept alive for a second run. */
const KEPT_EVERY = 5;
const MOST_TOOLS_AT_ONCE = 3;

/** Returns the id of the tool call that writes `line`. */
export const callOf = (line: string): string => `toolu_${line.replaceAll(" ", "_")}`;

/** Returns stories with `runs` runs in total. */
export function tellStories(seed: number, runs: number, tempo: Tempo): Story[] {
  const chance = seeded(seed);
  const stories: Story[] = [];
  for (let told = 0; told < runs; ) {
    const number = stories.length;
    const parts = number % KEPT_EVERY === KEPT_EVERY - 1 && runs - told >= 2 ? 2 : 1;
    stories.push(tell(number, parts, chance, tempo));
    told += parts;
  }
  return stories;
}

/** Returns the tools that the story needs, for an agent that names its tools. */
export function toolsNamedBy({ notes }: Story): readonly string[] {
  return notes.length > 0 ? ["note", "look"] : ["look"];
}

/** Returns the offline model's script. `hurried` sets every model latency to 0 and changes nothing else. */
export function scenarioOf(stories: readonly Story[], { hurried = false } = {}): Scenario {
  const scripts = stories.map((story) => story.script);
  if (!hurried) return scripts;
  return scripts.map((script) => ({
    ...script,
    turns: script.turns.map((turn) => ({ ...turn, latencyMs: 0 })),
  }));
}

function tell(number: number, parts: number, chance: Seeded, tempo: Tempo): Story {
  const notes: string[] = [];
  const looks: string[] = [];
  const write = (idempotent: boolean) => {
    const lines = idempotent ? looks : notes;
    const line = `${idempotent ? "look" : "note"} ${lines.length} of story ${number}`;
    lines.push(line);
    const input = { line, ms: chance.between(...tempo.toolMs) };
    return { type: "tool_use" as const, id: callOf(line), name: idempotent ? "look" : "note", input };
  };
  const runs = Array.from({ length: parts }, (_, part) => {
    const busy = chance.between(...tempo.turns) - 1;
    const working = Array.from({ length: busy }, (): Turn => {
      const others = chance.between(0, MOST_TOOLS_AT_ONCE - 1);
      // The last call is idempotent, so that it always has the same result, which the report quotes.
      const calls = [...Array.from({ length: others }, () => write(chance.next() < 0.3)), write(true)];
      return { content: calls, latencyMs: chance.between(...tempo.latencyMs) };
    });
    const report = `Report ${part + 1} of story ${number}: {{last_tool_result}}, at last.`;
    const last: Turn = {
      content: [{ type: "text", text: report }],
      latencyMs: chance.between(...tempo.latencyMs),
    };
    return [...working, last];
  });
  const marker = `Story ${number}.`;
  return {
    number,
    prompts: runs.map((_, part) => `${marker} Do part ${part + 1}.`),
    turns: runs.map((turns) => turns.length),
    notes,
    looks,
    script: { match: { user: marker }, turns: runs.flat() },
  };
}
