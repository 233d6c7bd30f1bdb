/** An ack whose answer was lost is sent again: it says again that it was the first, whatever entry it was for. */
import { expect, test } from "vitest";
import { type Rig, verbRig, wellDone } from "./rig.ts";

/** What stands in the channel after one step of a run. */
const ENTRIES: Readonly<Record<string, (rig: Rig) => Promise<unknown>>> = {
  "the reply of an agent that stays": async (rig) => {
    const { agent, epoch } = await rig.running();
    await rig.readFirst(agent, epoch);
    const stays = { target: "idle", ended_reason: undefined, idle_ms: 60_000 } as const;
    await rig.store.settle(agent, { ...wellDone(epoch), known: 1, ...stays });
  },
  "a message on the way": async (rig) => {
    const { agent, epoch } = await rig.running();
    await rig.readFirst(agent, epoch, { interim_id: "i-1", interim: "so far" });
  },
  "a question": async (rig) => {
    await rig.waiting();
  },
  "the end of an agent whose transcript is kept": async (rig) => {
    const { agent, epoch } = await rig.running();
    await rig.readFirst(agent, epoch);
    await rig.redis.hset(rig.keys.agent(agent).record, "transcript_ms", 60_000);
    await rig.store.settle(agent, { ...wellDone(epoch), known: 1 });
  },
};

test.for(Object.keys(ENTRIES))(
  "the ack of %s, sent again, is the first one again; another is not",
  async (what) => {
    const rig = verbRig();
    await ENTRIES[what]?.(rig);
    const [entry] = await rig.replies.read(rig.parent, "0", 1);
    if (!entry) throw new Error("the channel is empty");
    const ack = (token: string) => rig.replies.ack(rig.parent, entry, token);
    expect([await ack("a"), await ack("a"), await ack("b"), await ack("a")]).toEqual([
      true,
      true,
      false,
      true,
    ]);
  },
);
