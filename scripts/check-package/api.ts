import { createClient } from "subagent-queue";
import { type Api, createApi, createIntake, type Mount, mcpMount } from "subagent-queue/api";

const { REDIS_URL: redisUrl = "" } = process.env;
const client = createClient({ redisUrl });
const hello: Mount = {
  path: "/hello",
  scope: "read",
  handler: () => (_request, response) => response.end("hello"),
};
export const api: Api = createApi({ client, mounts: [mcpMount(), hello] });
export const intake = createIntake({ client, redisUrl });
