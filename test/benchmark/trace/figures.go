// SPDX-License-Identifier: Apache-2.0

package main

// marks are percentages of the cluster's GPUs. When the arrived tasks have requested that much, the allocated share
// is recorded. The last mark is the end.
var marks = [...]int{90, 95, 100, 130}

// atFull is the index of the mark to which the bar applies.
const atFull = 2

// figures are the allocated shares at each mark, in percent of the cluster's GPUs.
type figures [len(marks)]float64

// progress follows a run.
type progress struct {
	total, arrived, allocated int
	figures                   figures
	next                      int
}

// note records that a job has arrived, and whether it was placed.
func (p *progress) note(job []task, placed bool) {
	for _, t := range job {
		p.arrived += t.size()
		if placed {
			p.allocated += t.size()
		}
	}
	for p.next < atFull+1 && 100*p.arrived >= marks[p.next]*p.total {
		p.mark()
	}
}

func (p *progress) mark() {
	p.figures[p.next] = 100 * float64(p.allocated) / float64(p.total)
	p.next++
}

// end returns the figures once all jobs have arrived.
func (p *progress) end() figures {
	for p.next < len(marks) {
		p.mark()
	}
	return p.figures
}

// mean returns the mean of the runs' figures.
func mean(runs []figures) figures {
	var m figures
	for _, run := range runs {
		for i := range run {
			m[i] += run[i] / float64(len(runs))
		}
	}
	return m
}
