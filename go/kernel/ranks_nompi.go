//go:build cgo && !mpi

package kernel

import "errors"

// MPIRanks reports that this program was built without MPI.
func MPIRanks() (*Ranks, error) {
	return nil, errors.New("this program has no MPI; bin/quern-mpi has, which \"make mpi\" builds with the MPI of the machine")
}
