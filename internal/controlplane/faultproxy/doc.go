// SPDX-License-Identifier: Apache-2.0

// Package faultproxy is a reverse TLS proxy between a client and the API server that breaks requests on purpose: it
// responds with errors, drops exchanges before or after the server handled the request, delays requests, or holds them
// until a test releases them. It forwards bearer tokens, streams watches and counts requests.
//
// A client that authenticates with a certificate is anonymous behind the proxy, so it needs a token.
package faultproxy
