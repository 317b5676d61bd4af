// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports of servers are below the range that Linux uses for outgoing connections. So no client uses the port of a
// killed server before the server is restarted. A client that keeps dialling a port without a server also never
// connects to itself.
const (
	firstPort = 20000
	lastPort  = 31999
)

var handedOut = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// freePorts returns n different loopback ports that are not in use and were not returned before.
func freePorts(n int) ([]int, error) {
	handedOut.Lock()
	defer handedOut.Unlock()
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		if tries == 1000 {
			return nil, fmt.Errorf("no %d free ports between %d and %d", n, firstPort, lastPort)
		}
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if handedOut.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", hostPort(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		handedOut.ports[port] = true
		ports = append(ports, port)
	}
	return ports, nil
}

func hostPort(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
