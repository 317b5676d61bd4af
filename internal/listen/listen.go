// SPDX-License-Identifier: Apache-2.0

// Package listen says what an address without a host means to our binaries.
package listen

import "net"

// LoopbackHost is where a server listens when its address names no host.
const LoopbackHost = "127.0.0.1"

// Loopback returns the address with LoopbackHost in place of a missing host: ":8080" becomes "127.0.0.1:8080". An
// address that names a host, 0.0.0.0 and [::] included, and one that is not host:port stay as they are.
func Loopback(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "" {
		return address
	}
	return net.JoinHostPort(LoopbackHost, port)
}
