// Package compose judges docker-compose.yml as it runs: run.sh starts a Docker daemon and the stack, and its test
// breaks one service after the other and reports which parts noticed it, when, and the effects on users.
package compose
