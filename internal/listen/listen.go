// SPDX-License-Identifier: Apache-2.0

// Package listen defines the host on which this project's binaries listen if an address has no host.
package listen

import "net"

// LoopbackHost is the host on which a server listens if its address has no host.
const LoopbackHost = "127.0.0.1"

// Loopback returns the address with LoopbackHost if it has no host: ":8080" becomes "127.0.0.1:8080". An address with a
// host, such as 0.0.0.0 or [::], and a text that is not host:port, are returned unchanged.
func Loopback(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "" {
		return address
	}
	return net.JoinHostPort(LoopbackHost, port)
}
