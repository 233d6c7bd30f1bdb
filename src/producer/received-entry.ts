/** An entry of the reply channel in the hands of a reader, with the means to take it out of the channel. */
import { newRequestKey } from "../shared/protocol/ids.ts";
import type { ChannelEntry } from "../shared/protocol/reply.ts";
import type { StreamEntry } from "../shared/redis/reply-stream.ts";

/** One entry of the reply channel in a reader's hands. */
export type ReceivedEntry = ChannelEntry & {
  /**
   * Takes the entry out of the channel; true for whoever was first. Repeat it after `outcome_unknown`: the answer
   * will be the same. Rejects like every call when Redis is away; the entry is then still there.
   */
  ack(): Promise<boolean>;
};

/** Takes an entry out of its channel; `token` names this ack, so that a repeated one answers alike. */
export type AckEntry = (entry: StreamEntry, token: string) => Promise<boolean>;

/** An entry to hand to a reader. */
export function received(entry: StreamEntry, ack: AckEntry): ReceivedEntry {
  const token = newRequestKey();
  let answered = false;
  return {
    ...entry.entry,
    async ack() {
      if (answered) return false;
      const first = await ack(entry, token);
      // Two calls of this handle at the same time carry the same token: only one of them may say true.
      const won = first && !answered;
      answered = true;
      return won;
    },
  };
}
