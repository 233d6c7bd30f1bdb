/** Which TLS errors a run survives: those of one connection, not those of a certificate or a setting. */
import { expect, it } from "vitest";
import { classify } from "../../../../../src/worker/model/anthropic/failure.ts";

it.for([
  ["ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR", true],
  ["ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC", true],
  ["ERR_SSL_SSLV3_ALERT_BAD_RECORD_MAC", true],
  ["ERR_SSL_UNEXPECTED_EOF_WHILE_READING", true],
  ["ERR_TLS_HANDSHAKE_TIMEOUT", true],
  ["ERR_SSL_WRONG_VERSION_NUMBER", false],
  ["ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION", false],
  ["CERT_NOT_YET_VALID", false],
] as const)("%s: tried again %s", ([code, retryable]) => {
  const error = Object.assign(new Error("it broke"), { code });
  expect(classify(error, { nowMs: 0 })).toMatchObject({ kind: "network", retryable });
});
