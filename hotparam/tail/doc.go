// Package tail follows a growing file, such as an access log, line by line, and
// reads standard input.
//
// What enters is a path; what leaves is one call per complete line. Rotation (by
// rename or by truncation), a file that appears later or goes away for a while
// are ordinary. Memory is bounded: of a line that is too long nothing is handed
// on, and it is counted.
//
// github.com/nxadm/tail was tried: it reads a whole line into memory before it
// looks at its length, so one line without an end takes all memory there is.
// Here the file is asked again every quarter of a second, which also works
// where file notifications do not (network file systems, bind mounts).
package tail
