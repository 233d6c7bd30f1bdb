/** Guarantee: an answer that is no message at all is told as that, so that an operator looks at the address of the provider. */
import { expect, test } from "vitest";
import { ask, connect, hold, startProvider } from "../scripted-provider.ts";

test.each(["<html>a proxy</html>", "[1]", ""])(
  "the whole answer %j is told to be no message",
  async (body) => {
    const provider = await startProvider((response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(body);
    });
    expect(await connect(provider).call(ask({ stream: false }), hold())).toMatchObject({
      status: "failed",
      failure: { message: expect.stringContaining("the server did not answer with a message") },
    });
  },
);
