// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// clockTicks is the number of time units per second in files of /proc: USER_HZ, which Linux fixes at 100 for programs.
const clockTicks = 100

// CPUSeconds returns the processor time, user and system, that the process has used. After the end of the process, it
// returns the total.
func (p *Process) CPUSeconds() float64 {
	select {
	case <-p.exited:
		state := p.cmd.ProcessState
		return (state.UserTime() + state.SystemTime()).Seconds()
	default:
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0
	}
	// The second field of the file is the command in parentheses, which may contain spaces and parentheses. So fields
	// are counted from the last parenthesis. The user and system time, fields 14 and 15 of the file, are at index 11
	// and 12 after it.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	var ticks float64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseFloat(string(field), 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return ticks / clockTicks
}

// RSS returns the process's resident memory, in bytes; 0 after its end.
func (p *Process) RSS() int64 {
	select {
	case <-p.exited:
		return 0
	default:
		return procMemory(p.PID(), "VmRSS:")
	}
}

// PeakRSS returns the process's largest resident memory so far, in bytes. After the end of the process, it returns the
// value that was last read before the end.
func (p *Process) PeakRSS() int64 {
	peak := int64(0)
	select {
	case <-p.exited:
	default:
		peak = procMemory(p.PID(), "VmHWM:")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peakRSS = max(p.peakRSS, peak)
	return p.peakRSS
}

// procMemory returns the value of a field of /proc/PID/status, in bytes. This file is used because the peak from
// wait(2) is wrong: a child inherits the peak of the process that started it.
func procMemory(pid int, field string) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		value, ok := strings.CutPrefix(scanner.Text(), field)
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0
		}
		return kib << 10
	}
	return 0
}
