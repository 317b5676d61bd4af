// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
)

// series is the growth of our action's cost in one dimension, which doubles from point to point.
type series struct {
	Title  string  `json:"title"`
	Points []point `json:"points"`
}

// point is the cost of our action at one size.
type point struct {
	Size int `json:"size"`
	result
}

// dimensions are the dimensions that grow. size selects a value from the sizes, and shape returns the cluster for it.
var dimensions = []struct {
	name, title string
	sizes       []int
	shape       func(size int) shape
}{
	{"nodes", "nodes, one gang of 512", []int{1250, 2500, 5000, 10000}, func(size int) shape {
		return shape{nodes: size, gangs: 1, gangSize: 512, cpu: "1"}
	}},
	{"tasks", "tasks of one gang on 5,000 nodes", []int{128, 256, 512, 1024, 2048}, func(size int) shape {
		return shape{nodes: 5000, gangs: 1, gangSize: size, cpu: "1"}
	}},
	{"gangs", "gangs of 500 on 5,000 nodes", []int{5, 10, 20, 40}, func(size int) shape {
		return shape{nodes: 5000, gangs: size, gangSize: 500, cpu: "1"}
	}},
	{"elastic", "tasks of two jobs that need one each, on 1,000 nodes", []int{2000, 4000, 8000, 16000}, func(size int) shape {
		return shape{nodes: 1000, gangs: 2, gangSize: size / 2, minimum: 1, cpu: "1"}
	}},
	{"clusters", "IB clusters of 125 nodes, 512 tasks into one", []int{10, 20, 40, 80}, func(size int) shape {
		return shape{nodes: 125 * size, gangs: 1, gangSize: 512, cpu: "4", clusters: size, running: running{spoilt: true}}
	}},
	{"ibgangs", "gangs of 4 in 40 IB clusters, 5,000 nodes", []int{100, 200, 400, 800}, func(size int) shape {
		return shape{nodes: 5000, gangs: size, gangSize: 4, cpu: "1", clusters: 40}
	}},
}

// measureGrowth measures our action at all sizes of all dimensions.
func (b *bench) measureGrowth(ours *side, progress io.Writer) ([]series, error) {
	var all []series
	for _, d := range dimensions {
		s := series{Title: d.title}
		for _, size := range d.sizes {
			r, err := b.measureAndReport(progress, ours, fmt.Sprintf("%s-%d", d.name, size), d.shape(size))
			if err != nil {
				return nil, err
			}
			s.Points = append(s.Points, point{size, *r})
		}
		all = append(all, s)
	}
	return all, nil
}
