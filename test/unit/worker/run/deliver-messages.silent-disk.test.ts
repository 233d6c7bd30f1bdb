/** Guarantee: the files of a message hold no run on a disk that never answers. */
import { expect, test } from "vitest";
import { StopSignal } from "../../../../src/shared/stop-signal.ts";
import type { RunContext } from "../../../../src/worker/run/context.ts";
import { deliverMessages } from "../../../../src/worker/run/deliver-messages.ts";
import type { Session } from "../../../../src/worker/run/session.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { refusal } from "../../../helpers/parents.ts";

test("a message whose files cannot be written because the disk is silent is given up, and stays in the inbox", async () => {
  const clock = handClock();
  let isWriting = () => {};
  const written = new Promise<void>((resolve) => {
    isWriting = resolve;
  });
  const exclusive = () => {
    isWriting();
    return new Promise(() => {});
  };
  const session = {
    state: { inboxRead: 0 },
    record: { spec: { attached: true } },
    lease: { workStop: new StopSignal() },
    equipment: { workspace: { open: async () => ({ exclusive }) } },
    consume: () => expect.unreachable(),
  } as unknown as Session;
  const attached = async () => [{ v: 1, files: [{ path: "a.txt", content: "A" }] }];
  const context = { clock, store: { attached } } as unknown as RunContext;
  const messages = [{ v: 1 as const, message_id: "m", text: "work" }];
  const delivered = deliverMessages(context, session, { do: "deliver", message: 0, messages, consumeTo: 1 });
  await written;
  clock.advance(30_000);
  await expect(delivered).rejects.toMatchObject(refusal("setup_failed", /does not answer/));
});
