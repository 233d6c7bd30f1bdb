import { createServer } from "node:http";
import express from "express";
import { expect, test } from "vitest";
import { sendProblem } from "../../../../src/service/api/problem.ts";
import { listenUntilEnd } from "../../../helpers/listen.ts";

test("an answer that fails after it has begun is broken off: its client neither waits on nor takes it for whole", async () => {
  const app = express();
  app.get("/", (_request, response) => {
    response.write("half of", () => sendProblem(response, new TypeError("gone")));
  });
  const response = await fetch(await listenUntilEnd(createServer(app)));
  expect(response.status).toBe(200);
  await expect(response.text()).rejects.toThrow();
});
