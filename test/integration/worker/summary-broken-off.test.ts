/** Guarantee: a summary that was paid for and broke off is not bought again: the next one covers fewer messages. */
import { expect, test } from "vitest";
import { promptTokens } from "../../../src/shared/protocol/content.ts";
import { chapters, page, say } from "../../helpers/chapters.ts";
import { testParent } from "../../helpers/parents.ts";
import { openStage } from "../../stage/stage.ts";

const windowTokens = 36_000;
/** Of an answer: with so many every call is streamed, and a stream that breaks off has told what it cost. */
const max_tokens = 32_000;

test("summaries that break off in their middle cover less and less, and each is paid for once", async () => {
  const broken = { ...say("Three chapters."), failures: [{ stream: { errorAfterChunks: 3 } }] };
  const scenario = [{ turns: [...chapters, say("never said")], hand_back: broken, windowTokens }];
  const stage = await openStage({ scenario });
  await stage.startWorker({ tools: [page] });
  const reply = await testParent(stage.client({ limits: { max_tokens } })).task("work");
  expect(reply.status).toBe("partial");
  const prompts = stage.offline.ledger.flatMap(({ status, usage }) =>
    status === "error" && usage ? [promptTokens(usage)] : [],
  );
  expect(prompts).toHaveLength(3);
  expect(prompts).toEqual([...new Set(prompts)].sort((a, b) => b - a));
});
