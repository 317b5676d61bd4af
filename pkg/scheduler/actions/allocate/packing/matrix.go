// SPDX-License-Identifier: Apache-2.0

package packing

import "math"

// invert reduces the left half of the matrix to the identity matrix (Gauss-Jordan); false if it is singular.
func invert(matrix [][]float64) bool {
	for i := range matrix {
		pivot := i
		for row := i + 1; row < len(matrix); row++ {
			if math.Abs(matrix[row][i]) > math.Abs(matrix[pivot][i]) {
				pivot = row
			}
		}
		if math.Abs(matrix[pivot][i]) < slight {
			return false
		}
		matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
		for by, c := 1/matrix[i][i], i; c < len(matrix[i]); c++ {
			matrix[i][c] *= by
		}
		for row := range matrix {
			by := matrix[row][i]
			if row == i || by == 0 {
				continue
			}
			for c := i; c < len(matrix[row]); c++ {
				matrix[row][c] -= by * matrix[i][c]
			}
		}
	}
	return true
}
