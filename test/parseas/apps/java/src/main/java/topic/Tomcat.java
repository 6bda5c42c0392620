package topic;

import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.file.Files;
import org.apache.catalina.Context;

/** Tomcat PORT: servlets at /topic, which reads the query by getParameter, and at /login. */
public class Tomcat {
  public static void main(String[] args) throws Exception {
    org.apache.catalina.startup.Tomcat tomcat = new org.apache.catalina.startup.Tomcat();
    tomcat.setBaseDir(Files.createTempDirectory("tomcat").toString());
    tomcat.setPort(Integer.parseInt(args[0]));
    tomcat.getConnector().setProperty("address", "127.0.0.1");
    Context context = tomcat.addContext("", null);
    org.apache.catalina.startup.Tomcat.addServlet(context, "topic", new HttpServlet() {
      @Override
      protected void service(HttpServletRequest req, HttpServletResponse res) throws IOException {
        res.setContentType("application/json;charset=UTF-8");
        new ObjectMapper().writeValue(res.getWriter(), Saw.of(req.getParameter("id"), req.getParameter("topic_id")));
      }
    });
    context.addServletMappingDecoded("/topic", "topic");
    org.apache.catalina.startup.Tomcat.addServlet(context, "login", new HttpServlet() {
      @Override
      protected void doGet(HttpServletRequest req, HttpServletResponse res) throws IOException {
        res.setContentType("application/json;charset=UTF-8");
        new ObjectMapper().writeValue(res.getWriter(), Saw.login(req, req.getHeader("X-Account")));
      }

      @Override
      protected void doPost(HttpServletRequest req, HttpServletResponse res) throws IOException {
        doGet(req, res);
      }
    });
    context.addServletMappingDecoded("/login", "login");
    tomcat.start();
    tomcat.getServer().await();
  }
}
