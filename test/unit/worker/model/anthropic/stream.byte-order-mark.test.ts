import { expect, test } from "vitest";
import {
  ask,
  connect,
  hold,
  messageBody,
  messageEnd,
  messageStart,
  startProvider,
  textBlock,
} from "../scripted-provider.ts";

const BYTE_ORDER_MARK = "\ufeff";
/** Events in lines of data alone, as a gateway may send them. */
const dataLines = (messageStart() + textBlock(0, "hello") + messageEnd()).replaceAll(/^event: .*\n/gm, "");

test.each([
  ["stream", "text/event-stream", dataLines],
  ["message", "application/json", messageBody([{ type: "text", text: "hello" }])],
])("a %s may begin with a byte order mark, as a gateway may write it", async (_, contentType, body) => {
  const provider = await startProvider((response) =>
    response.writeHead(200, { "content-type": contentType }).end(BYTE_ORDER_MARK + body),
  );
  const outcome = await connect(provider).call(ask(), hold());
  expect(outcome).toMatchObject({ status: "answer", answer: { content: [{ type: "text", text: "hello" }] } });
});
