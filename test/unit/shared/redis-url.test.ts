import { expect, test } from "vitest";
import { createClient } from "../../../src/producer/client.ts";
import { SubagentError } from "../../../src/shared/errors.ts";
import { parseRedisUrl } from "../../../src/shared/redis-url.ts";
import { createWorker } from "../../../src/worker/worker.ts";

test.for([
  ["redis://localhost", { host: "localhost", port: 6379 }],
  ["redis://10.0.0.1:7000/3", { host: "10.0.0.1", port: 7000, db: 3 }],
  ["redis://u%40x:p%3Aw@h:1", { host: "h", port: 1, username: "u@x", password: "p:w" }],
  ["redis://:secret@h", { host: "h", port: 6379, password: "secret" }],
  ["redis://[::1]:6380", { host: "::1", port: 6380 }],
  ["rediss://h", { host: "h", port: 6379, tls: {} }],
  [
    "redis+cluster://a:7000,b,[::1]:7002",
    {
      nodes: [
        { host: "a", port: 7000 },
        { host: "b", port: 6379 },
        { host: "::1", port: 7002 },
      ],
    },
  ],
  [
    "redis+cluster://u%40x:p%3Aw@a:1/0",
    { nodes: [{ host: "a", port: 1 }], username: "u@x", password: "p:w" },
  ],
  [
    "rediss+cluster://clustercfg.example.com:6379/",
    { nodes: [{ host: "clustercfg.example.com", port: 6379 }], tls: {} },
  ],
  [
    "rediss://h/2?ca=/etc/my%20ca.pem&cert=/c.pem&key=/k+1.pem",
    { host: "h", port: 6379, db: 2, tls: { ca: "/etc/my ca.pem", cert: "/c.pem", key: "/k+1.pem" } },
  ],
  ["rediss+cluster://a:1?ca=/ca.pem", { nodes: [{ host: "a", port: 1 }], tls: { ca: "/ca.pem" } }],
  ["unix:///run/my%20redis.sock", { path: "/run/my redis.sock" }],
] as const)("%s is understood", ([url, options]) => {
  expect(parseRedisUrl(url)).toEqual(options);
});

test.for([
  "",
  "localhost:6379",
  "http://h",
  "redis://",
  "redis://h/db",
  "redis://h:99999",
  "redis://u%zz@h",
  "redis://h/0?tls=true",
  "redis://h?db=3",
  "redis://h?ca=/ca.pem",
  "redis+cluster://a:1?ca=/ca.pem",
  "rediss://h?ca=",
  "rediss://h?ca=ca.pem",
  "rediss://h?ca=/ca.pem&ca=/ca.pem",
  "rediss://h?ca=/ca.pem&",
  "rediss://h?ca=/a=b",
  "rediss://h?ca=/%zz",
  "rediss://h?cert=/c.pem",
  "rediss://h?key=/k.pem",
  "rediss://h?servername=/h",
  "redis://h#3",
  "unix:///run/redis.sock?db=3",
  "redis+cluster://",
  "redis+cluster://a:1,",
  "redis+cluster://a:1,,b:2",
  "redis+cluster://a:1, b:2",
  "redis+cluster://a:99999",
  "redis+cluster://a:1/3",
  "redis+cluster://a@b@c",
  "redis+cluster://a?x=1",
  "redis-cluster://a:1",
  "http+cluster://a:1",
  "unix://",
  "unix:///",
])("%j is refused with the forms that would do", (url) => {
  expect(() => parseRedisUrl(url)).toThrow(SubagentError);
  expect(() => parseRedisUrl(url)).toThrow(
    /write redis:\/\/host:port, rediss:\/\/host:port, unix:\/\/\/path.*redis\+cluster:\/\//,
  );
});

test("a refusal never shows the password", () => {
  expect(() => parseRedisUrl("http://user:hunter2@h")).toThrow(/http:\/\/\*\*\*@h/);
  for (const url of [
    "redis://user:hunter2@h/x",
    "redis://h:1?username=u&password=hunter2",
    "redis+cluster://a:1?password=hunter2",
    "redis+cluster://user:hunter2@a:1/x",
  ])
    expect(() => parseRedisUrl(url)).not.toThrow(/hunter2/);
});

test("an address that cannot be read is called by the option that holds it, in a client and in a worker", () => {
  const words = /^redisUrl "http:\/\/h" is not a Redis address: write redis:\/\//;
  const model = { call: async () => ({ status: "aborted" as const }), stop: async () => {} };
  const makers = [
    () => createClient({ redisUrl: "http://h" }),
    () => createWorker({ redisUrl: "http://h", model, workspaceRoot: "/srv" }),
  ];
  for (const make of makers)
    expect(make).toThrow(expect.objectContaining({ message: expect.stringMatching(words) }));
});
