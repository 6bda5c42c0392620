// Package compose judges docker-compose.yml as it runs: run.sh starts a Docker
// daemon and the stack, and its test breaks one service after the other and says
// who noticed, when, and what users felt.
package compose
