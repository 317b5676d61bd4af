// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

var _ = Describe("The scheduler's servers", func() {
	It("[wildcard-listen] listen on loopback when an address names no interface, as the defaults do", func(ctx SpecContext) {
		w := newTestEnv(ctx, "listen", 1, "1")
		// As in upstream, --help does not exit with 0.
		help, _ := exec.CommandContext(ctx, filepath.Join(binaries, "vc-scheduler"), "--help").CombinedOutput()
		Expect(string(help)).To(And(MatchRegexp(`--listen-address .*\(default ":\d+"\)`), MatchRegexp(`--healthz-address .*\(default ":\d+"\)`)))

		scheduler := w.startWith(ctx, controlplane.SchedulerOptions{
			Binary: filepath.Join(binaries, "vc-scheduler"), Conf: w.conf(), NoWait: true,
			Args: []string{"--listen-address=:" + freePort(), "--healthz-address=:" + freePort()},
		})
		Eventually(func() ([]string, error) { return listeners(scheduler.PID()) }).Should(HaveLen(2))
		Expect(listeners(scheduler.PID())).To(HaveEach("127.0.0.1"))
	})
})

func freePort() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	_, port, err := net.SplitHostPort(listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	Expect(listener.Close()).To(Succeed())
	return port
}

// listeners returns the local addresses of the process's listening sockets.
func listeners(pid int) ([]string, error) {
	own, err := sockets(pid)
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, table := range []string{"tcp", "tcp6"} {
		file, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			return nil, err
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			field := strings.Fields(lines.Text())
			if len(field) > 9 && field[3] == listening && own[field[9]] {
				addresses = append(addresses, address(field[1]))
			}
		}
	}
	return addresses, nil
}

// sockets returns the inodes of the process's sockets.
func sockets(pid int) (map[string]bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	inodes := map[string]bool{}
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(dir, entry.Name()))
		if err != nil {
			continue // It was closed in the meantime.
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes, nil
}

// address parses an address in /proc/net/tcp, which has its bytes in the order of a little-endian machine.
func address(field string) string {
	text, _, _ := strings.Cut(field, ":")
	var octets []byte
	for i := len(text); i >= 2; i -= 2 {
		var octet byte
		if _, err := fmt.Sscanf(text[i-2:i], "%02X", &octet); err != nil {
			return field
		}
		octets = append(octets, octet)
	}
	if len(octets) == net.IPv4len {
		return net.IP(octets).String()
	}
	return field
}
